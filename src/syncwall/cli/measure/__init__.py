"""`syncwall measure`: what links, devices and training steps really reach."""
