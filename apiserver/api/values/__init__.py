"""Values inside of fields: quantities, times, durations, names, addresses, versions, cron schedules."""
