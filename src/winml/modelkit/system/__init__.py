"""What this machine has: the document of ``winml sys`` and how it is made out of an inventory."""
