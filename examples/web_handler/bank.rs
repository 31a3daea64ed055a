//! The bank: a third party that takes its time, which is why there is a lock around it at all.
//!
//! It does what a `reference` names once, however often it is asked. Without such a promise a caller that was cut off
//! could never repeat a request, lock or no lock.

use std::time::Duration;

use reqwest::StatusCode;
use serde::Serialize;

use crate::error::ShopError;

/// What the bank is asked for. A payment is only *reserved*: it lapses unless a later job collects it, for the receipts
/// that the store has. So a handler that is dropped after the bank's answer has cost nobody anything.
#[derive(Serialize)]
pub(crate) struct Payment<'a> {
    pub(crate) reference: &'a str,
    pub(crate) buyer: &'a str,
    pub(crate) cents: u64,
}

/// Where it is.
pub(crate) enum Bank {
    /// Agrees to everything, after a moment.
    Demo,
    At {
        client: reqwest::Client,
        url: String,
    },
}

impl Bank {
    /// At this address, else the one that agrees to everything.
    pub(crate) fn new(url: Option<String>) -> Self {
        let client = reqwest::Client::new();
        url.map_or(Self::Demo, |url| Self::At { client, url })
    }

    pub(crate) async fn ask(&self, payment: &Payment<'_>) -> Result<(), ShopError> {
        let Self::At { client, url } = self else {
            tokio::time::sleep(Duration::from_millis(200)).await;
            return Ok(());
        };
        let answer = client.post(url).json(payment).send().await;
        match answer.and_then(reqwest::Response::error_for_status) {
            Ok(_) => Ok(()),
            Err(error) if error.status() == Some(StatusCode::PAYMENT_REQUIRED) => {
                Err(ShopError::Declined)
            }
            // Its URL may hold a password.
            Err(error) => Err(ShopError::Bank(error.without_url())),
        }
    }
}
