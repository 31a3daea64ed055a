//! The bank: a slow third party, which is why there is a lock around the call.
//!
//! It carries out each `reference` once, however often it is asked. Otherwise a caller that was cut
//! off could never repeat a request, with or without a lock.

use std::time::Duration;

use reqwest::StatusCode;
use serde::Serialize;

use crate::error::ShopError;

/// A payment is only *reserved*: it lapses unless a later job collects it, for the receipts in the
/// store. So a handler that is dropped after the bank's answer costs nobody anything.
#[derive(Serialize)]
pub(crate) struct Payment<'a> {
    pub(crate) reference: &'a str,
    pub(crate) buyer: &'a str,
    pub(crate) cents: u64,
}

/// The bank's address.
pub(crate) enum Bank {
    /// Agrees to everything, after a moment.
    Demo,
    At {
        client: reqwest::Client,
        url: String,
    },
}

impl Bank {
    /// The bank at this address; without one, the bank that agrees to everything.
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
