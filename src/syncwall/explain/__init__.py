"""Why a run is slow: verdict, why, next, from what was measured."""

from syncwall.public import callable_package

callable_package(__name__, "syncwall.explain.question:explain")
