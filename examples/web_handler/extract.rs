//! axum's `Path` and `Json`, whose rejections become a [`ShopError`], so that all answers have one
//! shape.

use axum::extract::{FromRequest, FromRequestParts};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::error::ShopError;

/// The values in the URL.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(ShopError))]
pub(crate) struct Path<T>(pub(crate) T);

/// The body of a request or of an answer.
#[derive(FromRequest)]
#[from_request(via(axum::Json), rejection(ShopError))]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}
