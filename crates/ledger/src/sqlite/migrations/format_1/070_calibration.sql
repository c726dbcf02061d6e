-- The ratio of each model's count of tokens to the engine's estimate, in thousandths. No key, no prompt, no session.
CREATE TABLE model_calibration (
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  per_mille INTEGER NOT NULL CHECK (per_mille > 0),
  samples INTEGER NOT NULL CHECK (samples >= 0),
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (provider, model)
) STRICT, WITHOUT ROWID;
