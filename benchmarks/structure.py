"""Print the size of the source tree: lines, modules, packages and modules with one importer.

python benchmarks/structure.py [SOURCE] [--json]
"""

import argparse
import ast
import json
from collections import defaultdict
from pathlib import Path

DEFAULT_SOURCE = Path(__file__).parent.parent / "src"


def module_names(source: Path) -> dict[str, Path]:
    """Return the modules below a source folder by dotted name, without `__init__` files."""
    return {
        ".".join(path.relative_to(source).with_suffix("").parts): path
        for path in sorted(source.rglob("*.py"))
        if path.stem != "__init__"
    }


def importers(modules: dict[str, Path], source: Path) -> dict[str, set[str]]:
    """Return for each module the files that import it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                if name in modules and modules[name] != path:
                    found[name].add(str(path))
    return found


def measure(source: Path) -> dict[str, int]:
    """Return the counts of a source tree."""
    modules = module_names(source)
    files = list(source.rglob("*.py"))
    importing = importers(modules, source)
    contents = [list(path.parent.iterdir()) for path in files if path.stem == "__init__"]
    return {
        "lines": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files),
        "modules": len(modules),
        "modules with one importer": sum(len(importing[name]) == 1 for name in modules),
        "packages": len(contents),
        "packages with one module": sum(
            len([entry for entry in entries if _is_part(entry)]) == 1 for entries in contents
        ),
    }


def _is_part(entry: Path) -> bool:
    return (entry / "__init__.py").exists() or (entry.suffix == ".py" and entry.stem != "__init__")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", nargs="?", type=Path, default=DEFAULT_SOURCE)
    parser.add_argument("--json", action="store_true", help="print as JSON")
    options = parser.parse_args()
    counts = measure(options.source)
    if options.json:
        print(json.dumps(counts))
    else:
        for name, count in counts.items():
            print(f"{name:28}{count:>8,}")


if __name__ == "__main__":
    main()
