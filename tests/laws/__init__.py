"""One question has one answer, however it is asked."""
