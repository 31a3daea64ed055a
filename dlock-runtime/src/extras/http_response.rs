//! A [`LockError`] as axum's response: for handlers that return it by `?`, or inside an error of their
//! own.
//!
//! Invariant: what the client gets names neither key nor host; the error itself is in the response's
//! extensions, for a layer that logs it.

use axum_core::response::{IntoResponse, Response};

use crate::values::error::LockError;

/// The response has the status of [`LockError::http_status`], a sentence for people, and
/// `Retry-After` with the time of [`LockError::retry_after`], except after `Lost`: a part of the
/// work may have been done, and the header would invite the client to repeat it.
///
/// Other errors may come after work was done, too: that of a second lock inside a body, or of a
/// guard's `release`, `extend`, `verify` or `write`. The response can't know that, and has the header;
/// map such an error to a response of your own.
///
/// Nothing is logged here. The error is in the response's extensions, where a layer of the program
/// finds it: `response.extensions().get::<LockError>()`.
///
/// # Examples
///
/// ```
/// use dlock_runtime::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "item:<id>", ttl = "10s", wait = "500ms", renew)]
/// async fn purchase(id: u64) -> Result<String, LockError> {
///     Ok(format!("item {id} was bought"))
/// }
///
/// /// `Router::new().route("/items/{id}", post(handler))`
/// async fn handler(id: u64) -> Result<String, LockError> {
///     purchase(id).await
/// }
/// # fn is_response<T: axum_core::response::IntoResponse>(_: T) {}
/// # is_response(Err::<String, _>(LockError::ShutDown));
/// ```
impl IntoResponse for LockError {
    fn into_response(self) -> Response {
        let mut response = self.for_people().into_response();
        if let Ok(status) = self.http_status().try_into() {
            *response.status_mut() = status;
        }
        if let Some(after) = self.retry_after().filter(|_| !self.is_lost()) {
            let seconds = after.as_secs().into();
            response.headers_mut().insert("retry-after", seconds);
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl LockError {
    // Constant texts: none can name a key or a host.
    fn for_people(&self) -> &'static str {
        match (self, self.http_status()) {
            (LockError::Lost { .. }, _) => {
                "This was interrupted; a part of it may have been done.\n"
            }
            (_, 400) => "This name cannot be used.\n",
            (_, 409) => "Another request is at it. Please try again later.\n",
            (_, 503) => "Not available at the moment. Please try again later.\n",
            _ => "Internal error.\n",
        }
    }
}
