"""Windows cut into panes: dense arrays by key, merged partials, results with their times."""
