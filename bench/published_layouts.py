"""Layouts of large published runs against the best that the search finds for the same software.

`python bench/published_layouts.py`
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import syncwall as sw
from syncwall.describe import Layout, Software
from syncwall.documents import read_document
from syncwall.plan.search import Candidate, search
from syncwall.show.words.layout import layout_words

CASES = Path(__file__).parent.parent / "tests" / "data" / "published_layouts.yaml"
_ON = {"overlap_gradients": True, "overlap_parameters": True, "overlap_pp": True}


@dataclass(frozen=True)
class Compared:
    """A published layout and the best one."""

    name: str
    published: sw.Prediction
    best: Candidate

    @property
    def ratio(self) -> float:
        """Predicted step of the published layout over that of the best."""
        return self.published.step_s / self.best.step_s


def compared() -> Iterator[Compared]:
    """Every case of the file."""
    for case in read_document(CASES).value:
        model, seq = sw.model(case["model"]), case["seq"]
        cluster = sw.cluster(case["cluster"], nodes=case["nodes"])
        software = Software(framework="megatron-core", date=case["date"])
        stated = {**case["layout"], **case["pinned"], "micro_batch": 1, "recompute": "none"}
        run = sw.Run(
            model=model, cluster=cluster, seq=seq, software=software,
            layout=Layout.model_validate(stated),
        )  # fmt: skip
        found = search(
            model, cluster, seq=seq, global_batch=stated["global_batch"], software=software,
            pinned={**_ON, **case["pinned"]},
        )  # fmt: skip
        yield Compared(case["name"], sw.predict(run), found.best(1)[0])


def main() -> None:
    for one in compared():
        step_s, needs = one.published.step_s, one.published.memory_bytes / 1e9
        print(f"{one.name:<28} {one.ratio:.3f} x the best   {step_s:6.2f} s, {needs:.0f} GB")
        print(f"{'':28} best: {one.best.step_s:6.2f} s   {layout_words(one.best.layout)}")


if __name__ == "__main__":
    main()
