"""The documents of `worker.gpustack.ai/v1`: read, checked field by field, defaulted and written back.

Doors call `api.load.load_text` for text, `api.decode.decode` for raw JSON and `api.encode.encode` for the way back;
the document classes live one kind per module. Nothing here reads another object, a clock or a file.
"""
