"""Readers: from files of one form to a table of raw columns or of numbers (`admmnet.data.table.RawTable`)."""
