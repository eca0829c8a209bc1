"""Windows divided into panes: dense arrays by key, merged partials, results with window times."""
