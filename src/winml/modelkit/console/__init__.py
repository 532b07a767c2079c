"""The only place that writes to a terminal: streams, tables, progress, JSON documents.

Modules here import rich only where a terminal shows it, and nothing heavy at their top.
"""
