//! Property test against a ResourceManager that is a table: whatever happens to calls, the restated
//! requests are those that the table held.

use proptest::prelude::*;

use super::*;

/// Fate of one call.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    /// Answered, but the AM does not receive the answer.
    Lost,
    Refused,
    /// Sent to a ResourceManager that was restarted before.
    Forgotten,
}

type Line = (i32, &'static str);

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        5 => Just(Fate::Answered),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Refused),
        2 => Just(Fate::Forgotten),
    ]
}

fn lines() -> impl Strategy<Value = Vec<(Line, i32)>> {
    let place = prop_oneof![Just("*"), Just("h1"), Just("/r")];
    prop::collection::vec(((0..3, place), 0..6), 0..4)
}

fn lower(table: &mut BTreeMap<Line, i32>, line: Line) {
    if let Some(count) = table.get_mut(&line) {
        *count -= 1;
        if *count == 0 {
            table.remove(&line);
        }
    }
}

fn state(table: &mut BTreeMap<Line, i32>, stated: &[(Line, i32)]) {
    for (line, count) in stated {
        if *count == 0 {
            table.remove(line);
        } else {
            table.insert(*line, *count);
        }
    }
}

proptest! {
    #[test]
    fn what_is_said_again_is_what_was_wanted(
        calls in prop::collection::vec((fate(), lines(), prop::collection::vec(0..3, 0..3)), 1..40),
    ) {
        let mut attempt = Attempt::registered();
        let mut table = BTreeMap::new();
        let (mut number, mut number_at_rm) = (0, 0);
        let mut next_id = 0;
        for (fate, stated, given) in calls {
            let asks = stated.iter().map(|((priority, place), count)| ask(*priority, place, *count));
            let mut request = attempt.begin(&allocate_with(number, asks.collect()));
            match fate {
                Fate::Refused => {
                    let refusal = RemoteException::new(HadoopException::YarnException, "no");
                    prop_assert!(attempt.done(&mut request, Err(refusal)).is_err());
                    continue;
                }
                Fate::Forgotten => {
                    let step = attempt.outcome(&mut request, not_registered());
                    prop_assert!(matches!(step, Step::Register(_)));
                    attempt.admit(&mut request, Ok(Response::default())).unwrap();
                    number_at_rm = 0;
                    let mut told = BTreeMap::new();
                    for line in sent(&request).ask {
                        let place = ["*", "h1", "/r"].into_iter().find(|place| *place == line.resource_name());
                        let priority = line.priority.unwrap().priority();
                        let twice = told.insert((priority, place.unwrap()), line.num_containers());
                        prop_assert!(twice.is_none() || stated.len() > 1);
                    }
                    told.retain(|_, count| *count > 0);
                    let mut wanted = table.clone();
                    state(&mut wanted, &stated);
                    prop_assert_eq!(told, wanted);
                }
                Fate::Answered | Fate::Lost => {}
            }
            prop_assert_eq!(sent(&request).response_id(), number_at_rm);
            state(&mut table, &stated);
            let containers = given.iter().map(|priority| {
                next_id += 1;
                container(next_id, *priority, "h1")
            });
            let answered = answer_with(number_at_rm + 1, containers.collect());
            let told = attempt.done(&mut request, Ok(answer(&answered))).unwrap();
            prop_assert_eq!(told.response_id(), number + 1);
            if matches!(fate, Fate::Lost) {
                // A restart comes before the repeated call, so that the answer is lost for good.
                let mut request = attempt.begin(&allocate_with(number, vec![]));
                let _ = attempt.outcome(&mut request, not_registered());
                attempt.admit(&mut request, Ok(Response::default())).unwrap();
                number_at_rm = 0;
                let none = answer_with(1, vec![]);
                attempt.done(&mut request, Ok(answer(&none))).unwrap();
            } else {
                for priority in given {
                    if table.contains_key(&(priority, "*")) {
                        lower(&mut table, (priority, "*"));
                        lower(&mut table, (priority, "h1"));
                    }
                }
            }
            number += 1;
            number_at_rm += 1;
        }
    }

    #[test]
    fn answers_and_requests_of_any_bytes_do_no_harm(
        request in prop::collection::vec(any::<u8>(), 0..60),
        answer in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut attempt = Attempt::registered();
        let mut asked = allocate(&allocate_with(0, vec![ask(1, "*", 2)]));
        for field in [1, 2, 3, 7, 10] {
            asked.message.push(field, &request);
        }
        let _ = attempt.registration.on_request(&mut asked);
        let mut response = crate::testing::answer(&answer_with(1, vec![]));
        for field in REMOVING {
            response.message.push(field, &answer);
        }
        let _ = attempt.outcome(&mut asked, Ok(response));
        let _ = attempt.begin(&allocate_with(1, vec![]));
        let mut outstanding = Outstanding::default();
        let _ = outstanding.apply_request(&raw(&allocate_with(0, vec![ask(1, "*", 2)])));
        let mut message = asked.message.clone();
        outstanding.restate(&mut message);
    }
}
