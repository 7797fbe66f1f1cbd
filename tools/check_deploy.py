"""Checks the files of deploy: the image's steps, the Helm chart, the manifest, the workflows.

usage: check_deploy.py

No container engine is needed: the Python steps of the Dockerfile run in a fresh environment, and a
pipeline runs there on a read-only folder until its health check passes. helm and actionlint are
built from Go into the cache folder; the Kubernetes schemas come with kubernetes-validate.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import quick_start

from servers import folders

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
PROGRAMS = {
    "actionlint": "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12",
    "helm": "helm.sh/helm/v3/cmd/helm@v3.22.0",
}
VALIDATOR = "kubernetes-validate==1.37.0"

CHARTS = {
    "default values": [],
    "all options": [
        *("--set", "serviceAccount.create=true", "--set", "serviceMonitor.enabled=true"),
        *("--set", "image.digest=sha256:abc", "--set", "image.pullSecrets={regcred}"),
        *("--set-json", 'nodeSelector={"disk":"ssd"}', "--set-json", 'podAnnotations={"a":"b"}'),
        *("--set-json", 'environment=[{"name":"AWS_REGION","value":"eu-west-1"}]'),
        *("--set-json", 'tolerations=[{"key":"lake","operator":"Exists"}]'),
    ],
    "no network policy": ["--set", "networkPolicy.enabled=false", "--set", "secrets=null"],
}


def main() -> int:
    """Run all checks; return the exit code."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        try:
            validate = _validator(folder)
            _workflows()
            _charts(folder, validate)
            _image(folder)
        except subprocess.CalledProcessError as error:
            command = shlex.join(map(str, error.cmd))
            output = f"{error.stdout or ''}{error.stderr or ''}"
            print(f"{command} failed. Its output:\n{output[-4000:]}", file=sys.stderr)
            return 1
    return 0


def _run(command: Sequence[str | Path], **options: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(  # type: ignore[call-overload]
        words, capture_output=True, text=True, check=True, **options
    )
    return str(done.stdout)


def _program(name: str) -> Path:
    """Return the path of a program of Go, built once for each version."""
    module = PROGRAMS[name]
    bin_folder = folders.server_cache() / f"{name}-{module.rpartition('@')[2]}"
    if not (bin_folder / name).exists():
        print(f"Building {name}: 1 to 5 minutes.", file=sys.stderr)
        _run(["go", "install", module], env={**os.environ, "GOBIN": str(bin_folder)})
    return bin_folder / name


def _validator(folder: Path) -> Path:
    _run([sys.executable, "-m", "venv", folder / "validator"])
    bin_folder = folder / "validator" / "bin"
    _run([bin_folder / "pip", "install", "--quiet", VALIDATOR])
    return bin_folder / "kubernetes-validate"


def _workflows() -> None:
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    _run([_program("actionlint"), "-shellcheck=", *files])
    print(f"workflows: actionlint passed for {len(files)} files")


def _charts(folder: Path, validate: Path) -> None:
    helm = _program("helm")
    chart = DEPLOY / "helm" / "bayou"
    _run([helm, "lint", "--strict", chart])
    for name, options in CHARTS.items():
        rendered = folder / "rendered.yaml"
        rendered.write_text(_run([helm, "template", "events", chart, *options]))
        known = folder / "known.yaml"
        # The Prometheus operator's kinds aren't part of Kubernetes's schemas.
        documents = re.split(r"^---$", rendered.read_text(), flags=re.MULTILINE)
        known.write_text("---".join(d for d in documents if "monitoring.coreos.com" not in d))
        _run([validate, "--strict", known])
        print(f"chart: rendered and valid with {name}")
    _run([validate, "--strict", DEPLOY / "kubernetes" / "bayou.yaml"])
    print("manifest: valid")


def _image(folder: Path) -> None:
    """Run the Dockerfile's Python steps in a fresh environment, then a pipeline until healthy."""
    dockerfile = (DEPLOY / "docker" / "Dockerfile").read_text().replace("\\\n", " ")
    image = folder / "image"
    image.mkdir()
    environment = folder / "python"
    _run([sys.executable, "-m", "venv", environment])
    path = f"{environment / 'bin'}:{os.environ['PATH']}"
    variables = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"PATH": path}
    for instruction, arguments in re.findall(r"^([A-Z]+) (.*)$", dockerfile, re.MULTILINE):
        if instruction == "COPY":
            *sources, target = arguments.split()
            for source in sources:
                _copy(ROOT / source, image / target)
        elif instruction == "RUN" and arguments.startswith("pip "):
            _run(shlex.split(arguments), cwd=image, env=variables)
            print(f"image: ran {arguments}")
    health = re.search(r"HEALTHCHECK .*CMD \[(.*)\]", dockerfile)
    assert health is not None
    command = [word.strip().strip('"') for word in health.group(1).split('", "')]
    with quick_start.broker(environment / "bin" / "python", folder) as address:
        _healthy(folder, variables, command, address)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def _healthy(folder: Path, variables: dict[str, str], check: list[str], address: str) -> None:
    """Run a pipeline as the container does, and its health check until it passes."""
    state = folder / "state"
    state.mkdir()
    file = folder / "pipeline.yaml"
    file.write_text(_PIPELINE.replace("localhost:9092", address))
    settings = {**variables, "BAYOU_STATE_PATH": str(state), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        ["bayou", "run", str(file)],
        cwd=state,
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as pipeline:
        try:
            while subprocess.run(check, env=settings, capture_output=True, check=False).returncode:
                if pipeline.poll() is not None:
                    assert pipeline.stdout is not None
                    output = pipeline.stdout.read()
                    raise subprocess.CalledProcessError(1, ["bayou", "run"], output)
                time.sleep(1)
        finally:
            pipeline.terminate()
    print("image: the health check passes beside a running pipeline")


_PIPELINE = """
connector:
  kafka:
    bootstrap-servers: "localhost:9092"
  monitoring:
    port: 8710
  topics:
    events:
      kafka-topic: "user.events.v1"
      destination:
        table-path: "lake/events"
"""


if __name__ == "__main__":
    sys.exit(main())
