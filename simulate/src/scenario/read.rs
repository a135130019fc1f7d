//! Reading of a scenario from its text.

use super::problem::ScenarioProblem;
use super::{Scenario, ScenarioError, check, sweep};

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// [`ScenarioError::Syntax`] with line and column, or [`ScenarioError::Problems`] with every
    /// value that cannot be simulated.
    pub fn read(text: &str) -> Result<Self, ScenarioError> {
        let swept = sweep::expanded(text).map_err(|reason| {
            let key = "arm".to_owned();
            ScenarioError::Problems(vec![ScenarioProblem { key, reason }])
        })?;
        let scenario: Self = match swept {
            Some(swept) => swept.try_into()?,
            None => toml::from_str(text)?,
        };
        let problems = check::problems(&scenario);
        if problems.is_empty() {
            Ok(scenario)
        } else {
            Err(ScenarioError::Problems(problems))
        }
    }
}
