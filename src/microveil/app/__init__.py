"""The whole job in a browser on one's own machine: pages over the workflow that Python and the command line use."""
