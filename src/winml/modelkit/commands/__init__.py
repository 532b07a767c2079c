"""One module per verb: options in, one library call, one rendering out.

A module here imports click and its neighbour ``options`` at its top, and all else inside the function that runs.
"""
