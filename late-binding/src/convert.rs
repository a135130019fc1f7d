//! Messages to values of `sched` and back.

use bytes::Bytes;
use records::{ApplicationAttemptId, Resource};
use sched::{Digest, ExpectedRun, Offer, OfferAnswer, OfferId, Reservation};
use thiserror::Error;
use wire::proto::nm_agent::{
    ExpectedRunProto, OfferRequestProto, OfferResponseProto, ReserveRequestProto,
};

/// Message that is no reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a reservation without {0}")]
pub struct NotAReservation(&'static str);

/// Message that is no offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("an offer without {0}")]
pub struct NotAnOffer(&'static str);

/// Returns the message of a reservation.
#[must_use]
pub fn reserve_request(reservation: &Reservation) -> ReserveRequestProto {
    ReserveRequestProto {
        attempt: Some(reservation.attempt.into()),
        user: Some(reservation.user.to_bytes().into()),
        memory_mb: Some(reservation.size.memory_mb),
        vcores: Some(reservation.size.vcores),
        waiting: Some(reservation.waiting),
        run: Some(run_message(reservation.run)),
        given_back: Some(reservation.given_back),
    }
}

/// Reads a reservation.
///
/// # Errors
/// [`NotAReservation`]: it lacks a field, or has one of the wrong form.
pub fn reservation_of(message: &ReserveRequestProto) -> Result<Reservation, NotAReservation> {
    let attempt = message.attempt.as_ref();
    let attempt = attempt.and_then(|attempt| ApplicationAttemptId::try_from(attempt).ok());
    Ok(Reservation {
        attempt: attempt.ok_or(NotAReservation("an attempt"))?,
        user: digest(message.user.as_ref()).ok_or(NotAReservation("a user"))?,
        size: Resource::new(message.memory_mb(), message.vcores()),
        waiting: message.waiting(),
        run: run(message.run.as_ref()),
        given_back: message.given_back(),
    })
}

/// Returns the message of an offer.
#[must_use]
pub fn offer_request<P>(offer: &Offer<P>) -> OfferRequestProto {
    OfferRequestProto {
        id: Some(offer.id.0),
        attempt: Some(offer.attempt.into()),
        memory_mb: Some(offer.size.memory_mb),
        vcores: Some(offer.size.vcores),
        rooms: Some(offer.rooms),
    }
}

/// Reads an offer.
///
/// # Errors
/// [`NotAnOffer`]: it names no attempt.
pub fn offer_of(message: &OfferRequestProto) -> Result<Offer<()>, NotAnOffer> {
    let attempt = message.attempt.as_ref();
    let attempt = attempt.and_then(|attempt| ApplicationAttemptId::try_from(attempt).ok());
    Ok(Offer {
        id: OfferId(message.id()),
        to: (),
        attempt: attempt.ok_or(NotAnOffer("an attempt"))?,
        size: Resource::new(message.memory_mb(), message.vcores()),
        rooms: message.rooms(),
    })
}

/// Returns the message of an answer to an offer.
#[must_use]
pub fn offer_response(answer: OfferAnswer) -> OfferResponseProto {
    OfferResponseProto {
        bound: Some(answer.bound),
        waiting: Some(answer.waiting),
        run: Some(run_message(answer.run)),
        within_ms: Some(answer.within_ms),
    }
}

/// Reads an answer to an offer. What is absent is 0.
#[must_use]
pub fn offer_answer_of(message: &OfferResponseProto) -> OfferAnswer {
    OfferAnswer {
        bound: message.bound(),
        waiting: message.waiting(),
        run: run(message.run.as_ref()),
        within_ms: message.within_ms(),
    }
}

fn run_message(run: ExpectedRun) -> ExpectedRunProto {
    let (mean_ms, at_least_ms) = match run {
        ExpectedRun::Mean(mean_ms) => (Some(mean_ms), None),
        ExpectedRun::AtLeast(ran_ms) => (None, Some(ran_ms)),
    };
    ExpectedRunProto {
        mean_ms,
        at_least_ms,
    }
}

fn run(message: Option<&ExpectedRunProto>) -> ExpectedRun {
    let mean_ms = message.and_then(|run| run.mean_ms);
    let at_least_ms = message.map_or(0, ExpectedRunProto::at_least_ms);
    mean_ms.map_or(ExpectedRun::AtLeast(at_least_ms), ExpectedRun::Mean)
}

fn digest(bytes: Option<&Bytes>) -> Option<Digest> {
    let bytes: &[u8; 16] = bytes?.as_ref().try_into().ok()?;
    Some(Digest::of_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_support::ids;

    use super::*;

    fn runs() -> impl Strategy<Value = ExpectedRun> {
        prop_oneof![
            any::<u64>().prop_map(ExpectedRun::Mean),
            any::<u64>().prop_map(ExpectedRun::AtLeast),
        ]
    }

    proptest! {
        #[test]
        fn what_is_sent_is_what_arrives(
            (user, memory_mb, vcores) in (any::<[u32; 4]>(), any::<u64>(), any::<u32>()),
            (waiting, given_back, rooms, run) in (any::<u32>(), any::<u32>(), any::<u32>(), runs()),
        ) {
            let reservation = Reservation {
                attempt: ids::attempt(7),
                user: Digest(user),
                size: Resource::new(memory_mb, vcores),
                waiting,
                run,
                given_back,
            };
            prop_assert_eq!(reservation_of(&reserve_request(&reservation)), Ok(reservation));
            let offer = Offer {
                id: OfferId(memory_mb),
                to: (),
                attempt: ids::attempt(7),
                size: reservation.size,
                rooms,
            };
            prop_assert_eq!(offer_of(&offer_request(&offer)), Ok(offer));
            let answer = OfferAnswer { bound: rooms, waiting, run, within_ms: memory_mb };
            prop_assert_eq!(offer_answer_of(&offer_response(answer)), answer);
        }
    }

    #[test]
    fn a_message_that_lacks_who_it_is_for_is_refused() {
        let mut message = ReserveRequestProto::default();
        assert_eq!(reservation_of(&message), Err(NotAReservation("an attempt")));
        message.attempt = Some(ids::attempt(7).into());
        for user in [&b""[..], b"fifteen bytes..", b"seventeen bytes.."] {
            message.user = Some(Bytes::copy_from_slice(user));
            assert_eq!(reservation_of(&message), Err(NotAReservation("a user")));
        }
        let offer = OfferRequestProto::default();
        assert_eq!(offer_of(&offer), Err(NotAnOffer("an attempt")));
    }
}
