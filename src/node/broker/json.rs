//! Messages, receipts and deliveries as JSON for JavaScript. It must never leave out what decides whose they are.

use serde_json::json;

use crate::dispatch::{Disposition, Receipt};
use model::{StoredDelivery, StoredItem, StoredSchedule};

pub(super) fn item_json(stored: &StoredItem) -> serde_json::Value {
    let StoredItem { item, .. } = stored;
    let parsed = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap_or_default();
    json!({
        "id": item.id,
        "sessionLabel": stored.session_label,
        "source": stored.source,
        "mode": item.mode,
        "route": item.route,
        "message": parsed(&stored.message),
        "request": parsed(&stored.request),
        "eventId": stored.event_id,
        "from": stored.sender,
        "status": stored.status,
        "reason": stored.reason,
        "detail": stored.detail,
        "tries": item.tries,
        "failures": item.failures,
        "notBefore": item.not_before,
        "turnId": stored.turn_id,
        "createdAt": stored.created_at,
        "claimedAt": stored.claimed_at,
        "deliveredAt": stored.delivered_at,
    })
}

pub(super) fn delivery_json(stored: &StoredDelivery) -> serde_json::Value {
    let target: serde_json::Value = serde_json::from_str(&stored.target).unwrap_or_default();
    json!({
        "turnId": stored.turn_id,
        "sessionLabel": stored.session_label,
        "target": target,
        "status": stored.status,
        "tries": stored.tries,
        "failures": stored.failures,
        "notBefore": stored.not_before,
        "error": stored.error,
        "createdAt": stored.created_at,
        "deliveredAt": stored.delivered_at,
    })
}

pub(super) fn receipt_json(receipt: &Receipt) -> String {
    let disposition = match receipt.disposition {
        Disposition::Started => "started",
        Disposition::Queued => "queued",
        Disposition::Steered => "steered",
        Disposition::Duplicate => "duplicate",
        Disposition::Rejected => "rejected",
    };
    json!({
        "disposition": disposition,
        "itemId": receipt.item_id,
        "sessionLabel": receipt.session_label,
        "isFork": receipt.is_fork,
    })
    .to_string()
}

pub(super) fn schedule_json(stored: &StoredSchedule) -> serde_json::Value {
    let parsed = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap_or_default();
    json!({
        "id": stored.id,
        "spec": parsed(&stored.spec),
        "item": parsed(&stored.item),
        "nextAt": stored.next_at,
        "lastAt": stored.last_at,
        "createdAt": stored.created_at,
    })
}
