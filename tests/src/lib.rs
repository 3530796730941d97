//! Scenario tests of pct: they build and run real programs, and compare what pct reports with a truth that the program
//! counts itself.
