//! Projection: any history to a transcript that a provider accepts (RULES §4). It must never write back.
