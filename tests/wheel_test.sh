#!/bin/sh
# Build the source archive and the wheel from it; install the wheel of `make wheel` that has machine code into a fresh
# environment, and try it from another folder, with an empty cache: nothing may be compiled.
set -eu
python=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/build"
"$folder/build/bin/python" -m pip install --quiet "build>=1.2" "twine>=6.1"
"$folder/build/bin/python" -m build --outdir "$folder" . > "$folder/build.txt" || { cat "$folder/build.txt"; exit 1; }
"$folder/build/bin/python" -m twine check --strict "$folder"/streamddcrp-*
tar -tzf "$folder"/streamddcrp-*.tar.gz | cut -d / -f 2- | sort > "$folder/archived.txt"
for name in pyproject.toml README.md LICENSE CHANGELOG.md CITATION.cff CODE_OF_CONDUCT.md CONTRIBUTING.md Makefile Dockerfile hatch_build.py \
    streamddcrp/__init__.pyi streamddcrp/py.typed connectors/streamddcrp_connectors/report/templates/base.html \
    tests/unit/test_exports.py tests/wheel_test.sh docs/conf.py docs/index.md examples/read_the_outputs.py benchmarks/__main__.py research/reproduce.py
do
    grep -qx "$name" "$folder/archived.txt" || { echo "the source archive lacks $name"; exit 1; }
done
"$python" -m venv "$folder/venv"
bin="$folder/venv/bin"
wheel=$(ls dist/streamddcrp-*-cp*.whl)
"$bin/python" -m pip install --quiet "$wheel[plot]" --group test
cp tests/unit/test_exports.py "$folder"
cp -r tests "$folder/tests"
cd "$folder"
unset PYTHONPATH
export NUMBA_CACHE_DIR="$folder/cache"
"$bin/python" - <<'END'
import re
from importlib.metadata import metadata, version
from importlib.resources import files

import streamddcrp
from streamddcrp import SeqDDCRP

assert "site-packages" in streamddcrp.__file__, streamddcrp.__file__
assert version("streamddcrp") == streamddcrp.__version__
page = metadata("streamddcrp").json["description"]
assert "## Ten lines of Python" in page
lost = re.findall(r"\]\((?!https:|#)[^)]*\)", page)
assert not lost, f"links that lead nowhere on an index: {lost}"
for package, name in [("streamddcrp", "__init__.pyi"), ("streamddcrp", "py.typed"),
                      ("streamddcrp_connectors", "py.typed"),
                      ("streamddcrp_connectors", "report/templates/base.html"),
                      ("streamddcrp_connectors", "page/static/index.html")]:
    assert files(package).joinpath(name).is_file(), f"the wheel lacks {package}/{name}"
model = SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.1, 1.5, 1.0))
model.learn_many([[0.1], [-0.2], [0.3], [9.0], [9.2], [9.1]])
assert model.predict_one({0: 0.0}) != model.predict_one({0: 9.0})
assert SeqDDCRP.from_bytes(model.to_bytes()).predict_one({0: 9.0}) == model.predict_one({0: 9.0})
END
"$bin/streamddcrp" --help > help.txt
grep -q Usage help.txt
"$bin/streamddcrp" demo
test -s demo/water-flow.png
test -s demo/water-flow.html
"$bin/python" -m pytest -q -c /dev/null --rootdir . test_exports.py
"$bin/streamddcrp" warmup --all --no-progress
"$bin/python" -m tests.ready
compiled=$(find "$folder/cache" -name '*.nbc' | wc -l)
[ "$compiled" = 0 ] || { find "$folder/cache" -name '*.nbc'; echo "the wheel lacks machine code"; exit 1; }
echo "wheel and source archive are complete"
