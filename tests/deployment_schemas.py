"""Validate the files of `deploy/kubernetes` against the schemas of Kubernetes.

Run by `make test-deploy` in an environment with kubernetes-validate, which is too large for the
development environment. Kinds of KEDA, Knative and kustomize have no schema there and are skipped.
"""

import sys
from pathlib import Path

import kubernetes_validate  # type: ignore[import-not-found]
import yaml

FOLDER = Path(__file__).parent.parent / "deploy" / "kubernetes"
SKIPPED = ("keda.sh/", "kustomize.config.k8s.io/")


def main() -> int:
    version = kubernetes_validate.latest_version()
    failures = checked = 0
    for path in sorted(FOLDER.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            name = f"{path.name} {document['kind']}"
            if document["apiVersion"].startswith(SKIPPED):
                print(f"{name}: no schema, not checked")
                continue
            try:
                kubernetes_validate.validate(document, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                failures += 1
                print(f"{name}: {error.message}")
            else:
                checked += 1
    print(f"{checked} documents are valid for Kubernetes {version}, {failures} are not")
    return 1 if failures or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
