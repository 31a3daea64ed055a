//! All errors of a request, and what its client sees of them.
//!
//! One type has the shop's own outcomes and the lock's, so that a handler can use `?` on both. The
//! client gets a status, a word for programs and a sentence for people. Who held the lock, and what
//! Redis or the bank said, goes to the log only.

use std::error::Error;
use std::time::Duration;

use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use dlock_runtime::LockError;
use serde::Serialize;

/// Why a request got no receipt.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShopError {
    #[error("there is no such item")]
    NoSuchItem,
    #[error("the item is sold out")]
    SoldOut,
    #[error("the bank declined the payment")]
    Declined,
    #[error("the buyer has had the welcome bonus")]
    BonusPaid,
    #[error("this order was placed before, for something else")]
    OrderReused,
    #[error("the request is not one that this shop knows: {text}")]
    BadRequest { status: StatusCode, text: String },
    #[error("a later holder of the lock has written")]
    Overtaken,
    #[error("the bank can't be asked")]
    Bank(#[source] reqwest::Error),
    #[error("the request took longer than it may")]
    TooSlow,
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// What the client gets beside the status.
#[derive(Serialize)]
struct Body<'a> {
    error: &'a str,
    message: &'a str,
}

impl ShopError {
    /// No such path, or no such method on it.
    pub(crate) fn nothing_here(status: StatusCode) -> Self {
        let text = "There is nothing here that answers this.".to_owned();
        Self::BadRequest { status, text }
    }

    /// The status, the word and the sentence. None of them may contain `LockError`'s text, which
    /// names the holder's host and the server's address.
    fn for_client(&self) -> (StatusCode, &'static str, &str) {
        use StatusCode as Status;
        match self {
            Self::NoSuchItem => (Status::NOT_FOUND, "no_such_item", "There is no such item."),
            Self::SoldOut => (Status::GONE, "sold_out", "The last one was just sold."),
            Self::Declined => (
                Status::PAYMENT_REQUIRED,
                "declined",
                "Your bank declined the payment.",
            ),
            Self::BonusPaid => (Status::GONE, "bonus_paid", "You have had this bonus."),
            Self::OrderReused => (
                Status::UNPROCESSABLE_ENTITY,
                "order_reused",
                "This order was placed before, for something else.",
            ),
            Self::BadRequest { status, text } => (*status, "bad_request", text),
            Self::Overtaken => (Status::SERVICE_UNAVAILABLE, "interrupted", INTERRUPTED),
            Self::Bank(_) => (Status::BAD_GATEWAY, "bank", "The bank does not answer."),
            Self::TooSlow => (Status::GATEWAY_TIMEOUT, "too_slow", INTERRUPTED),
            Self::Lock(error) => match error {
                LockError::Busy { .. } => (
                    Status::CONFLICT,
                    "busy",
                    "Somebody else is at it. Please try again.",
                ),
                LockError::InvalidKey { .. } => {
                    (Status::BAD_REQUEST, "bad_request", "That is no valid name.")
                }
                // The body had begun: what it did stays done, and a repeated request finds it.
                LockError::Lost { .. } => (Status::SERVICE_UNAVAILABLE, "interrupted", INTERRUPTED),
                // A mistake in this program, which no retry fixes.
                LockError::NotInitialized
                | LockError::Config { .. }
                | LockError::WouldDeadlock { .. } => {
                    (Status::INTERNAL_SERVER_ERROR, "internal", "We are sorry.")
                }
                // Unavailable, Refused, ShutDown: the body did not begin.
                _ => (
                    Status::SERVICE_UNAVAILABLE,
                    "unavailable",
                    "Not now. Nothing was changed; please try again.",
                ),
            },
        }
    }

    /// When a client should retry, if a retry makes sense.
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Lock(error) => error.retry_after(),
            Self::Overtaken | Self::TooSlow | Self::Bank(_) => Some(Duration::from_secs(1)),
            _ => None,
        }
    }
}

const INTERRUPTED: &str =
    "This was interrupted. Send it again as it was: it is not carried out twice.";

impl IntoResponse for ShopError {
    fn into_response(self) -> Response {
        let (status, error, message) = self.for_client();
        let why: &dyn Error = &self; // with its sources
        if status.is_server_error() {
            tracing::warn!(status = status.as_u16(), error = why, "failed");
        } else {
            tracing::info!(status = status.as_u16(), error = why, "refused");
        }
        let mut response = (status, axum::Json(Body { error, message })).into_response();
        if let Some(after) = self.retry_after() {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, after.as_secs().into());
        }
        response
    }
}

impl From<PathRejection> for ShopError {
    fn from(rejection: PathRejection) -> Self {
        Self::BadRequest {
            status: rejection.status(),
            text: rejection.body_text(),
        }
    }
}

impl From<JsonRejection> for ShopError {
    fn from(rejection: JsonRejection) -> Self {
        Self::BadRequest {
            status: rejection.status(),
            text: rejection.body_text(),
        }
    }
}
