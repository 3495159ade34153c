"""The workflows of CI: what must never be otherwise, whatever else changes in them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def load(path: Path) -> dict[str, Any]:
    yaml = pytest.importorskip("ruamel.yaml", reason="comes with check-jsonschema: pip install -e '.[dev]'")
    content: dict[str, Any] = yaml.YAML(typ="safe").load(path)
    return content


@pytest.fixture
def nightly() -> dict[str, Any]:
    return load(ROOT / ".github" / "workflows" / "nightly-gpu.yml")


@pytest.fixture
def ci() -> dict[str, Any]:
    return load(ROOT / ".github" / "workflows" / "ci.yml")


def steps_of(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_there_are_two() -> None:
    assert [path.name for path in FILES] == ["ci.yml", "nightly-gpu.yml"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_they_fit_the_schema(path: Path) -> None:
    pytest.importorskip("check_jsonschema")
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.github-workflows",
        str(path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_permissions_are_to_read_alone(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in workflow["jobs"].values())
    checkouts = [step for step in steps_of(workflow) if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_actions_are_pinned_to_a_commit_whose_version_is_named(path: Path) -> None:
    uses = re.findall(r"uses: (.*)", path.read_text())
    assert uses
    for line in uses:
        assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", line), line


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_from_outside_becomes_part_of_a_command(path: Path) -> None:
    for step in steps_of(load(path)):
        inserted = re.findall(r"\$\{\{(.*?)\}\}", step.get("run", ""))
        assert all(each.strip().startswith("matrix.") for each in inserted), step


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_job_has_a_time_limit(path: Path) -> None:
    assert all(0 < job["timeout-minutes"] <= 120 for job in load(path)["jobs"].values())


def test_no_pull_request_reaches_a_gpu(nightly: dict[str, Any], ci: dict[str, Any]) -> None:
    assert set(nightly["on"]) == {"schedule", "workflow_dispatch"}
    assert all(job["if"] == "github.event.repository.fork == false" for job in nightly["jobs"].values())
    assert "pull_request_target" not in ci["on"]
    assert all("self-hosted" not in str(job["runs-on"]) for job in ci["jobs"].values())


def test_two_nights_never_share_a_gpu(nightly: dict[str, Any]) -> None:
    (job,) = nightly["jobs"].values()
    label = "${{ matrix.gpu.label }}"
    assert job["concurrency"] == {"group": f"nightly-gpu-{label}", "cancel-in-progress": False}
    assert job["runs-on"] == ["self-hosted", "linux", "gpu", label]
    assert all(set(gpu) == {"label", "model"} for gpu in job["strategy"]["matrix"]["gpu"])


def test_what_a_night_found_is_kept_however_it_ends(nightly: dict[str, Any]) -> None:
    night, summary, folder = steps_of(nightly)[1:]
    assert ".ci/nightly --gpu" in night["run"] and "continue-on-error" not in night
    assert summary["if"] == folder["if"] == "always()"
    assert "GITHUB_STEP_SUMMARY" in summary["run"] and "summary.md" in summary["run"]
    assert folder["uses"].startswith("actions/upload-artifact@")


def run_step(step: dict[str, Any], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """As a runner does it."""
    (folder / "step.sh").write_text(step["run"])
    given = {"RUNNER_TEMP": str(folder), "GITHUB_STEP_SUMMARY": str(folder / "shown"), **variables}
    return subprocess.run(
        ["bash", "-e", "step.sh"],
        cwd=folder,
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", []),
        ("-k 'softmax and not fp16' --seed 7", ["-k", "softmax and not fp16", "--seed", "7"]),
        ("--only latency\n--seed 7\n", ["--only", "latency", "--seed", "7"]),
        ("-k '$(touch here)' *", ["-k", "$(touch here)", "*"]),
    ],
)
def test_arguments_of_a_night_are_words_as_a_shell_takes_them(
    nightly: dict[str, Any], tmp_path: Path, given: str, words: list[str]
) -> None:
    script = tmp_path / ".ci" / "nightly"
    script.parent.mkdir()
    script.write_text("""#!/bin/sh\nprintf '%s\\n' "$@"\n""")
    script.chmod(0o755)
    night = steps_of(nightly)[1]
    done = run_step(night, tmp_path, ARGUMENTS=given, MODEL="NVIDIA H200", HISTORY="/history")
    known = ["--gpu", "NVIDIA H200", "--out", f"{tmp_path}/night", "--history", "/history"]
    assert (done.returncode, done.stdout.splitlines()) == (0, [*known, *words]), done.stderr
    assert run_step(night, tmp_path, ARGUMENTS="-k 'softmax", MODEL="", HISTORY="").returncode != 0


def test_night_without_a_summary_is_red(nightly: dict[str, Any], tmp_path: Path) -> None:
    summary = steps_of(nightly)[2]
    assert run_step(summary, tmp_path).returncode == 1
    assert "left no summary" in (tmp_path / "shown").read_text()
    (tmp_path / "night").mkdir()
    (tmp_path / "night" / "summary.md").write_text("# Night")
    assert run_step(summary, tmp_path).returncode == 0
    assert (tmp_path / "shown").read_text().endswith("# Night")


def test_ci_asks_all_that_needs_no_gpu(ci: dict[str, Any]) -> None:
    (job,) = ci["jobs"].values()
    assert job["strategy"]["matrix"]["python"] == ["3.10", "3.13"]
    assert job["timeout-minutes"] <= 15
    run = " ".join(part["run"] for part in job["strategy"]["matrix"]["part"])
    for what in ("lint", "types", "workflows", "correctness", "codegen", "tests/harness"):
        assert what in run
    assert any(step.get("uses", "").startswith("actions/cache@") for step in steps_of(ci))


def test_scripts_that_workflows_call_are_there() -> None:
    nightly = ROOT / ".ci" / "nightly"
    assert nightly.stat().st_mode & 0o111
    done = subprocess.run(["bash", "-n", str(nightly)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^workflows: ", makefile, re.MULTILINE)
    assert "workflows" in (ROOT / ".ci" / "run").read_text().splitlines()[-1]


@pytest.mark.parametrize(
    ("given", "ran"),
    [
        (
            ["--gpu", "NVIDIA H200"],
            [
                "make --no-print-directory -C ROOT install",
                ".venv in HERE, path ROOT -m tilecheck nightly --root ROOT --gpu NVIDIA H200",
            ],
        ),
        (
            ["--installed", "--out", "night"],
            ["python3 in HERE, path ROOT -m tilecheck nightly --root ROOT --out night"],
        ),
    ],
)
@pytest.mark.parametrize("called", ["ROOT/.ci/nightly", "../root/.ci/nightly", "./link"])
@pytest.mark.parametrize("code", [0, 13])
def test_nightly_script_installs_and_hands_on_options_and_exit_code_wherever_it_is_called(
    tmp_path: Path, given: list[str], ran: list[str], called: str, code: int
) -> None:
    root, here = tmp_path / "root", tmp_path / "here"
    (root / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "nightly", root / ".ci")
    here.mkdir()
    (here / "link").symlink_to(root / ".ci" / "nightly")
    for name, says, ends in (
        ("bin/make", "make", 0),
        ("bin/python3", "python3 in $PWD, path $PYTHONPATH", code),
        (".venv/bin/python", ".venv in $PWD, path $PYTHONPATH", code),
    ):
        program = root / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f'#!/bin/sh\necho "{says} $*"; cat; exit {ends}\n')
        program.chmod(0o755)
    path = f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [called.replace("ROOT", str(root)), *given],
        cwd=here,
        env={**variables, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout.replace(str(root), "ROOT").replace(str(here), "HERE")
    assert (done.returncode, said.splitlines()) == (code, ran)
