"""Waiting for the next batch of a `DataLoader`."""

from typing import Any

from syncwall.watch.hooks.patch import Function
from syncwall.watch.hooks.watching import Watching
from syncwall.watch.marks import MarkKind
from syncwall.watch.notes import NoteKind


def attach(watching: Watching) -> None:
    """Mark `next` of the iterators, and making one, which starts the workers."""
    from torch.utils.data import dataloader

    begin, end = int(MarkKind.DATA_BEGIN), int(MarkKind.DATA_END)

    def marked(function: Function) -> Function:
        def call(self: Any) -> Any:
            watching.mark(begin)
            try:
                return function(self)
            finally:
                watching.mark(end)

        return call

    iterator = getattr(dataloader, "_BaseDataLoaderIter", None)
    if not watching.patches.replace(iterator, "__next__", marked):
        watching.note(NoteKind.NO_DATA_LOADER)
    watching.patches.replace(dataloader.DataLoader, "__iter__", marked)
