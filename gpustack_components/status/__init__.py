"""What a person or the next tool reads of a deployment: the status document, its events, and plain words for a table.

Pure: observed objects and the time are arguments. `report.report` makes the document, `text` words it.
"""
