"""The report: one page of HTML that shows what the lake's tables hold."""
