//! The NodeManager as a library, so that a test can run a whole agent.
