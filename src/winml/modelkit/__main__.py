"""Run the ``winml`` command as ``python -m winml.modelkit``."""

from winml.modelkit.launch import main

if __name__ == "__main__":
    main()
