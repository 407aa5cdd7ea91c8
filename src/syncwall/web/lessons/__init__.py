"""What only the page "How a step works" needs: a step worker by worker, a pipeline pass by pass."""
