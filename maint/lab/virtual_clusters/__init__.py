"""The simulated Data Engineering service: gateway, jobs API, runs, schedules."""
