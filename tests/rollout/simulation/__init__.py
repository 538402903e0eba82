"""A cluster in memory: what stands in it (`api_server`), what Kueue makes of it (`kueue`), the machines and the garbage
collector (`machines`), all of it together (`cluster`); and drivers on it, as processes that run request by request
(`process`) or undisturbed (`view`)."""
