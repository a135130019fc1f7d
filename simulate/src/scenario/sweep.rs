//! Sweeps: an arm whose settings are lists stands for an arm with each combination of their values.

use toml::{Table, Value};

/// Most arms that a scenario may have, those of sweeps included.
const ARMS_MAX: usize = 200;

/// Returns the scenario with an arm for each combination; `None` if no arm has a list.
///
/// # Errors
/// A text, if an arm has an empty list, or there are too many combinations.
pub(super) fn expanded(text: &str) -> Result<Option<Table>, String> {
    // A text that is no TOML is refused by the caller, with line and column.
    let Ok(mut scenario) = text.parse::<Table>() else {
        return Ok(None);
    };
    let Some(Value::Array(arms)) = scenario.get("arm") else {
        return Ok(None);
    };
    let is_list = |arm: &Value| {
        let mut settings = arm.as_table().into_iter().flat_map(Table::values);
        settings.any(Value::is_array)
    };
    if !arms.iter().any(is_list) {
        return Ok(None);
    }
    let mut expanded = Vec::new();
    for (number, arm) in (1..).zip(arms) {
        match arm.as_table() {
            Some(arm) => expanded.extend(combinations(number, arm, expanded.len())?),
            None => expanded.push(arm.clone()),
        }
    }
    scenario.insert("arm".to_owned(), Value::Array(expanded));
    Ok(Some(scenario))
}

fn combinations(number: usize, arm: &Table, so_far: usize) -> Result<Vec<Value>, String> {
    let mut all = vec![(arm.clone(), Vec::new())];
    for (key, values) in arm {
        let Value::Array(values) = values else {
            continue;
        };
        if values.is_empty() {
            return Err(format!("arm {number}.{key}: an empty list"));
        }
        if so_far + all.len() * values.len() > ARMS_MAX {
            return Err(format!("arm {number}: more than {ARMS_MAX} arms"));
        }
        let with = |(arm, names): (Table, Vec<String>)| {
            values.iter().map(move |value| {
                let mut arm = arm.clone();
                arm.insert(key.clone(), value.clone());
                let mut names = names.clone();
                let value = shown(value);
                names.push(format!("{key} {value}"));
                (arm, names)
            })
        };
        all = all.into_iter().flat_map(with).collect();
    }
    let named = |(mut arm, names): (Table, Vec<String>)| {
        if !names.is_empty() {
            let text = |key: &str| arm.get(key).and_then(Value::as_str).unwrap_or_default();
            let first = match text("name") {
                "" => text("policy"),
                name => name,
            };
            let name = format!("{first}, {}", names.join(", "));
            arm.insert("name".to_owned(), Value::String(name));
        }
        Value::Table(arm)
    };
    Ok(all.into_iter().map(named).collect())
}

/// Returns a value as labels show it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Boolean(value) => value.to_string(),
        Value::Datetime(time) => time.to_string(),
        // No setting takes them: reading the arm refuses them.
        Value::Array(_) | Value::Table(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;

    fn labels(arm: &str) -> Result<Vec<String>, String> {
        let text = format!(
            r#"
            title = "sweep"
            cluster = {{ nodes = 3, places = 2 }}
            workload = {{ jobs = "even", count = 3, load = 0.5 }}
            {arm}
            "#
        );
        let scenario = Scenario::read(&text).map_err(|error| error.to_string())?;
        Ok(scenario
            .arms
            .iter()
            .map(crate::scenario::Arm::label)
            .collect())
    }

    #[test]
    fn lists_stand_for_every_combination() {
        let arm = r#"
            [[arm]]
            policy = "spread"
            nodes-used = [10, 100]
            limit-stdev = [0.5, 1.0]
            [[arm]]
            policy = "looks"
        "#;
        let found = labels(arm).unwrap();
        assert_eq!(
            found,
            [
                "spread, limit-stdev 0.5, nodes-used 10",
                "spread, limit-stdev 0.5, nodes-used 100",
                "spread, limit-stdev 1.0, nodes-used 10",
                "spread, limit-stdev 1.0, nodes-used 100",
                "looks",
            ]
        );
    }

    #[test]
    fn what_cannot_be_swept_is_named() {
        for (arm, reason) in [
            (
                "policy = \"spread\"\nnodes-used = []",
                "arm 1.nodes-used: an empty list",
            ),
            (
                "policy = \"spread\"\nnodes-used = [\"ten\"]",
                "invalid type",
            ),
            ("policy = \"spread\"\nnodes-use = [1, 2]", "nodes-use"),
        ] {
            let error = labels(&format!("[[arm]]\n{arm}")).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        let many: Vec<String> = (1..=20).map(|value| value.to_string()).collect();
        let many = many.join(",");
        let arm =
            format!("[[arm]]\npolicy = \"spread\"\nnodes-used = [{many}]\nqueue-length = [{many}]");
        assert!(labels(&arm).unwrap_err().contains("more than 200 arms"));
    }
}
