"""Where the experiments find their data, and the folder for what they make."""

import os
import re
from pathlib import Path

import pyarrow.parquet as pq

from streamddcrp.errors import ConfigError

_BESIDE_CLONE = Path(__file__).resolve().parents[2] / "shared" / "data"
_ARTICLE = re.compile(r"<TEXT>(.*?)</TEXT>", re.DOTALL)


def shared_file(name: str, instead: str = "") -> Path:
    """Return where a data set is: in $STREAMDDCRP_SHARED, else in shared/data beside the clone.

    What is not there is refused, and nothing else taken for it; ``instead`` says what would do.
    """
    path = Path(os.environ.get("STREAMDDCRP_SHARED") or _BESIDE_CLONE) / name
    if not path.exists():
        message = (
            f"there is no {path}; set STREAMDDCRP_SHARED to the folder of data sets. {instead}"
        )
        raise ConfigError(message.rstrip())
    return path


def read_documents(path: Path) -> list[str]:
    """Read texts: the column ``text`` of a Parquet file, or a text file.

    In a text file, documents are what stands between <TEXT> and </TEXT>, or, without such marks,
    what blank lines set apart.
    """
    if path.suffix.lower() == ".parquet":
        names = pq.read_schema(path).names
        if "text" not in names:
            message = f"{path}: there is no column 'text' among {', '.join(names)}"
            raise ConfigError(message)
        texts = pq.read_table(path, columns=["text"]).column("text").to_pylist()
    else:
        try:
            content = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            message = f"{path}: not a text in UTF-8 ({error.reason}, byte {error.start})"
            raise ConfigError(message) from error
        texts = _ARTICLE.findall(content) or re.split(r"\n\s*\n", content)
    documents = [text for text in texts if text and text.strip()]
    if not documents:
        message = f"{path}: it contains no text"
        raise ConfigError(message)
    return documents


def make_folder(folder: Path) -> Path:
    """Make a folder for what an experiment writes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        message = f"--out must name a folder, but {folder} is a file"
        raise ConfigError(message) from error
    return folder
