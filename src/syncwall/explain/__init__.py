"""Why a run is slow: verdict, why, next, from what was measured."""
