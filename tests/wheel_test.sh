#!/bin/sh
# Build the wheel, install it into a fresh environment, and try it from another folder.
set -eu
python=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m pip wheel --quiet --no-deps --wheel-dir "$folder" .
"$python" -m venv "$folder/venv"
bin="$folder/venv/bin"
"$bin/python" -m pip install --quiet "$folder"/streamddcrp-*.whl pytest
cp tests/unit/test_exports.py "$folder"
cd "$folder"
unset PYTHONPATH
"$bin/python" - <<'END'
from importlib.resources import files

import streamddcrp
from streamddcrp import SeqDDCRP

assert "site-packages" in streamddcrp.__file__, streamddcrp.__file__
for package, name in [("streamddcrp", "__init__.pyi"), ("streamddcrp", "py.typed"),
                      ("streamddcrp_connectors", "py.typed")]:
    assert files(package).joinpath(name).is_file(), f"the wheel lacks {package}/{name}"
model = SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.1, 1.5, 1.0))
model.learn_many([[0.1], [-0.2], [0.3], [9.0], [9.2], [9.1]])
assert model.predict_one({0: 0.0}) != model.predict_one({0: 9.0})
assert SeqDDCRP.from_bytes(model.to_bytes()).predict_one({0: 9.0}) == model.predict_one({0: 9.0})
END
"$bin/streamddcrp" --help > help.txt
grep -q Usage help.txt
"$bin/python" -m pytest -q -c /dev/null --rootdir . test_exports.py
echo "the wheel is complete: $(ls streamddcrp-*.whl)"
