"""Public training programs under `syncwall capture`: which are recorded as they are, and how well.

Holds `programs`, the command: each program of `programs.yaml` is checked out from a folder of
clones at its commit, gets the files that it would have downloaded (`program_files.py`), and is
recorded in one environment for all. What came of it goes to `programs_today.yaml`, and to
`programs_first.yaml` if it was the first try: that file is never rewritten. `page_text` is the page
that shows both.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import torch
import tyro
import yaml

from bench import ROOT, Names
from syncwall.read.recorded_program import read_program
from syncwall.work.program import unknown_share

HERE = Path(__file__).parent
LIST, FIRST, TODAY = (HERE / f"programs{name}.yaml" for name in ("", "_first", "_today"))
PAGE = ROOT / "docs" / "reference" / "programs.md"
CPU_S, PEAK_MB = 30.0, 1_200.0
"""What a recording may take."""
_AGREES = 0.001
_LONGEST = 300


@dataclass(frozen=True)
class TrainingProgram:
    """One program, as `programs.yaml` has it."""

    name: str
    repository: str
    commit: str
    command: str
    folder: str = "."
    path: str = ""
    packages: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    prepare: str = ""
    torch: str = torch.__version__.partition("+")[0]
    """The PyTorch that it needs, if not ours."""
    ranks: int = 8
    samples: float | None = None
    tokens: float | None = None
    expected: str = ""

    @property
    def words(self) -> list[str]:
        """What follows `syncwall capture`, without its own flags."""
        return self.command.split()


@dataclass(frozen=True)
class Attempt:
    """What came of recording a program once."""

    says: str = ""
    """Why it was refused; nothing if it was recorded."""
    cpu_s: float = 0.0
    peak_mb: float = 0.0
    """Of the largest process."""
    flops: float = 0.0
    """Of the model in one step, over all ranks."""
    unknown: float = 0.0
    samples: float = 0.0
    tokens: float = 0.0

    @property
    def is_captured(self) -> bool:
        return not self.says


def listed() -> list[TrainingProgram]:
    return [TrainingProgram(**one) for one in yaml.safe_load(LIST.read_text(encoding="utf-8"))]


def attempts(file: Path) -> dict[str, Attempt]:
    if not file.exists():
        return {}
    return {name: Attempt(**one) for name, one in yaml.safe_load(file.read_text(encoding="utf-8")).items()}


def _keep(file: Path, found: dict[str, Attempt]) -> None:
    order = [one.name for one in listed() if one.name in found]
    text = yaml.safe_dump({name: asdict(found[name]) for name in order}, sort_keys=False, width=110)
    file.write_text(text, encoding="utf-8")


def programs(
    names: Names = (),
    *,
    clones: Annotated[Path, tyro.conf.arg(metavar="DIR")],
    folder: Annotated[Path, tyro.conf.arg(metavar="DIR")],
    timeout: float = 600.0,
) -> int:
    """Record public training programs as they are, one after the other, and write down what came of it.

    Args:
        names: Only these; all of bench/accuracy/programs.yaml if none is given.
        clones: Clones of the repositories, each named OWNER+NAME.
        folder: Where checkouts, files and the environment of the programs go.
        timeout: Seconds of CPU time for each.
    """
    all_ = listed()
    unknown = set(names) - {one.name for one in all_}
    if unknown:
        print(f"not in programs.yaml: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    folder = folder.resolve()
    for program in all_:
        if not names or program.name in names:
            try:
                found = recorded(program, clones, folder, timeout)
            except subprocess.CalledProcessError as error:  # of ours: the program was not tried
                print(f"{program.name}: not prepared: {error}", file=sys.stderr)
                continue
            print(f"{program.name}: {found.says or 'recorded'} {asdict(found)}", flush=True)
            if program.name not in (first := attempts(FIRST)):
                _keep(FIRST, {**first, program.name: found})
            _keep(TODAY, {**attempts(TODAY), program.name: found})
    return 0


def recorded(program: TrainingProgram, clones: Path, folder: Path, timeout: float) -> Attempt:
    """Check out, prepare and record one program."""
    checkout = folder / re.sub(r"\W+", "_", program.name)
    there = checkout / program.folder
    variables = _variables(program, checkout, there)
    python = _environment(folder / f"environment-{program.torch}", program.torch, program.packages)
    if not checkout.exists():
        _check_out(clones / program.repository.replace("/", "+"), program.commit, checkout)
        if program.prepare:
            snippet = checkout / "prepare.txt"
            snippet.write_text(program.prepare, encoding="utf-8")
            words = [str(python), str(HERE / "program_files.py"), str(snippet)]
            try:
                subprocess.run(words, cwd=there, env=variables, check=True)
            except subprocess.CalledProcessError:
                shutil.rmtree(checkout)
                raise
    return _recorded(program, python, there, variables, timeout)


def _variables(program: TrainingProgram, checkout: Path, there: Path) -> dict[str, str]:
    own = {
        name: str(there / value) if (name.endswith("_DIR")) else value
        for name, value in program.environment.items()
    }
    path = [str(ROOT / "src"), *([str(checkout / program.path)] if program.path else [])]
    home = {"HF_HOME": str(checkout / "hub"), "HF_HUB_OFFLINE": "1", "WANDB_MODE": "offline"}
    return {**os.environ, **home, **own, "PYTHONPATH": os.pathsep.join(path)}


def _check_out(clone: Path, commit: str, checkout: Path) -> None:
    """The files of a commit; those that a partial clone lacks are left out."""
    where = clone / "repo" if (clone / "repo").exists() else clone
    where = where / ".git" if (where / ".git").exists() else where
    git = ["git", "--git-dir", str(where), "--work-tree", str(checkout)]
    index = {**os.environ, "GIT_INDEX_FILE": str(checkout.with_suffix(".index"))}
    checkout.mkdir(parents=True)
    subprocess.run([*git, "read-tree", commit], env=index, check=True)
    subprocess.run([*git, "checkout-index", "-a", "-f"], env=index, cwd=checkout, check=False)


def _environment(folder: Path, version: str, packages: Sequence[str]) -> Path:
    """The Python of an environment that has all that ours has, PyTorch in this version, and these packages.

    It is the build with CUDA: packages with kernels of their own, as torchvision, are made for no other.
    """
    pinned = f"torch==={version}"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        inside = subprocess.run(
            [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        Path(inside, "host.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", pinned], check=True)
    if packages:
        limits = folder / "constraints.txt"
        limits.write_text(f"{pinned}\n", encoding="utf-8")
        words = ["-m", "pip", "install", "--quiet", "--constraint", str(limits), *packages]
        subprocess.run([str(python), *words], check=True)
    return python


def _recorded(
    program: TrainingProgram, python: Path, there: Path, variables: dict[str, str], timeout: float
) -> Attempt:
    file, log = there / "recorded.work.json.gz", there / "recorded.log"
    file.unlink(missing_ok=True)
    flags = ["--world", str(program.ranks), "--json", "--timeout", str(timeout), "-o", str(file)]
    flags += ["--nproc-per-node", str(min(program.ranks, 8))]
    words = program.words
    cut = words.index("--") if "--" in words else len(words)
    command = [str(python), "-m", "syncwall", "capture", *words[:cut], *flags, *words[cut:]]
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, cwd=there, env=variables, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        assert process.stdout is not None
        answer = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
    cost = {"cpu_s": round(used.ru_utime + used.ru_stime, 1), "peak_mb": round(used.ru_maxrss / 1024)}
    if os.waitstatus_to_exitcode(status):
        return Attempt(says=_refusal(log.read_text(errors="replace"), there), **cost)
    said = json.loads(answer)
    return Attempt(
        "",
        **cost,
        flops=float(said["model_flops"]),
        unknown=round(unknown_share(read_program(file)), 4),
        samples=float(said["samples"]),
        tokens=float(said["tokens"]),
    )


def _refusal(log: str, there: Path) -> str:
    """The last lines of what the program and `capture` printed, without the folders of this machine."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    begins = [at for at, line in enumerate(lines) if re.match(r"\S+:\d+:\d+  ", line)]
    said = " ".join(lines[begins[-1] if begins else -1 :]) if lines else "ended without a word"
    for folder in (there, *there.parents[:2]):
        said = said.replace(f"{folder}/", "")
    return re.sub(r"/\S*/site-packages/", "", said)[:_LONGEST]


def page_text() -> str:
    """The page: what stands above its first section, the counts, and a row for each program."""
    head = PAGE.read_text(encoding="utf-8").partition("\n## ")[0].rstrip()
    first, today = attempts(FIRST), attempts(TODAY)
    return "\n".join([head, *_counts(first, today), *_rows(first, today)]) + "\n"


def _counts(first: dict[str, Attempt], today: dict[str, Attempt]) -> Iterator[str]:
    known = {one.name: one for one in listed()}
    yield "\n## Counts\n"
    yield "| | tried | recorded as they are | refused | samples and tokens right | ≤ 30 s CPU | ≤ 1.2 GB |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for title, found in (("first try", first), ("today", today)):
        captured = {name: one for name, one in found.items() if one.is_captured}
        right = sum(is_right(known[name], one) is True for name, one in captured.items())
        fast = sum(one.cpu_s <= CPU_S for one in captured.values())
        small = sum(one.peak_mb <= PEAK_MB for one in captured.values())
        refused = len(found) - len(captured)
        tried = f"{len(found)} of {len(known)}"
        yield f"| {title} | {tried} | {len(captured)} | {refused} | {right} | {fast} | {small} |"


def is_right(program: TrainingProgram, found: Attempt) -> bool | None:
    """Whether samples and tokens are those of the program's configuration; None if it says neither."""
    pairs = [(program.samples, found.samples), (program.tokens, found.tokens)]
    stated = [(wanted, got) for wanted, got in pairs if wanted is not None]
    return all(abs(got - wanted) <= _AGREES * wanted for wanted, got in stated) if stated else None


def _rows(first: dict[str, Attempt], today: dict[str, Attempt]) -> Iterator[str]:
    yield "\n## Programs\n"
    titles = (
        "program, first try, today, CPU s, peak MB, FLOPs a step, not known, samples and tokens, expected"
    )
    yield f"| {titles.replace(', ', ' | ')} |"
    yield "|---|---|---|---:|---:|---:|---:|---|---|"
    for program in listed():
        now = today.get(program.name)
        link = f"[{program.name}](https://github.com/{program.repository}/tree/{program.commit})"
        cells = [link, _said(first.get(program.name)), _said(now)]
        if now is not None and now.is_captured:
            counts = f"{now.samples:,.0f}, {now.tokens:,.0f}"
            mark = {True: "", False: " (**wrong**)", None: ""}[is_right(program, now)]
            cells += [f"{now.cpu_s:.0f}", f"{now.peak_mb:,.0f}", f"{now.flops:.3g}", f"{now.unknown:.1%}"]
            cells += [counts + mark]
        else:
            cells += ["" if now is None else f"{now.cpu_s:.0f}", "", "", "", ""]
        yield f"| {' | '.join([*cells, _expected(program)])} |"


def _expected(program: TrainingProgram) -> str:
    if program.samples is None or program.tokens is None:
        return _cell(program.expected)
    return _cell(f"{program.samples:,.0f}, {program.tokens:,.0f}: {program.expected}")


def _said(found: Attempt | None) -> str:
    if found is None:
        return "not tried"
    return "recorded" if found.is_captured else _cell(f"refused: {found.says}")


def _cell(text: str) -> str:
    """Text that a table of Markdown shows as it is, cut if it is long."""
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST].rstrip()} ..."
    for sign in "\\`*_<>|":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())


def page() -> int:
    """Write docs/reference/programs.md from the attempts that are kept."""
    PAGE.write_text(page_text(), encoding="utf-8")
    return 0
