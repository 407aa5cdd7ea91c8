"""From the time of a step to the date and the bill of a whole job."""
