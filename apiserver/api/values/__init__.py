"""Values inside fields: quantities, times, durations, names, addresses, versions, cron schedules."""
