#!/bin/sh
# Install acc with its server extras into a new virtual environment: install.sh TARGET [PYTHON]
# Run it in the root of the repository. The lock is complete: pip resolves nothing.
set -eu
target=$1
python=${2:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$target"
pip() { "$target/bin/python" -m pip --quiet --disable-pip-version-check --no-cache-dir "$@"; }
pip install --no-deps --require-hashes -r requirements/server.lock
# The build tools stay out of the environment.
pip install --no-deps --require-hashes --target "$work/build" -r requirements/build.lock
PYTHONPATH="$work/build" pip install --no-deps --no-build-isolation .
pip check
