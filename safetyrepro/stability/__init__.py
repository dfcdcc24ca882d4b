"""Does a ranking survive the configuration grid: from a score table or a results folder to JSON, sentences, a page."""
