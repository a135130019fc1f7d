//! Starts real Hadoop and real agents for tests.
