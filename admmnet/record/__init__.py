"""The run folder as typed values: forms, reader, writer, verdict, and how each figure prints."""
