//! One vector: what an embedder returned, checked and brought to unit length, and its bytes in a store.
//!
//! It must never let a number pass that is not finite.

/// Why a vector cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VectorProblem {
    /// It has another number of dimensions.
    Dimensions {
        /// Those of the model.
        wanted: usize,
        /// Its own.
        found: usize,
    },
    /// It has a number that is infinite or not a number.
    NotFinite,
    /// It has no direction: every number is 0.
    Zero,
}

impl std::fmt::Display for VectorProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Dimensions { wanted, found } => {
                write!(f, "the vector has {found} dimensions, and the model's have {wanted}")
            }
            Self::NotFinite => f.write_str("the vector has a number that is not finite"),
            Self::Zero => f.write_str("the vector is all zeros"),
        }
    }
}

/// The vector with unit length.
///
/// # Errors
/// Another number of dimensions than `dimensions`, a number that is not finite, or no direction.
pub fn unit(mut vector: Vec<f32>, dimensions: usize) -> Result<Vec<f32>, VectorProblem> {
    if vector.len() != dimensions {
        return Err(VectorProblem::Dimensions { wanted: dimensions, found: vector.len() });
    }
    if vector.iter().any(|number| !number.is_finite()) {
        return Err(VectorProblem::NotFinite);
    }
    // The largest first, so that the square of a large number stays finite.
    let largest = vector.iter().fold(0_f32, |largest, number| largest.max(number.abs()));
    if largest == 0.0 {
        return Err(VectorProblem::Zero);
    }
    vector.iter_mut().for_each(|number| *number /= largest);
    let length = dot(&vector, &vector).sqrt();
    vector.iter_mut().for_each(|number| *number /= length);
    Ok(vector)
}

/// The product of two vectors; of unit vectors, the cosine of their angle.
#[must_use]
pub fn dot(one: &[f32], other: &[f32]) -> f32 {
    let mut sums = [0_f32; 8];
    let (ones, others) = (one.chunks_exact(8), other.chunks_exact(8));
    let rest: f32 = ones.remainder().iter().zip(others.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in ones.zip(others) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// The bytes of a vector in a store.
#[must_use]
pub fn to_bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Reads the bytes of a vector into `vector`; false if they are not those of so many numbers as it has.
pub fn read_bytes(bytes: &[u8], vector: &mut [f32]) -> bool {
    if bytes.len() != vector.len() * 4 {
        return false;
    }
    for (number, bytes) in vector.iter_mut().zip(bytes.chunks_exact(4)) {
        let Ok(bytes) = bytes.try_into() else { return false };
        *number = f32::from_le_bytes(bytes);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{VectorProblem, dot, read_bytes, to_bytes, unit};

    #[test]
    fn a_vector_has_unit_length_also_if_its_numbers_are_huge_or_tiny() {
        for scale in [1.0, 1e-30, 1e30, f32::MAX] {
            let vector = unit(vec![scale, scale, scale, scale], 4).unwrap();
            assert!((dot(&vector, &vector) - 1.0).abs() < 1e-6, "{scale}");
        }
    }

    #[test]
    fn a_vector_of_other_dimensions_or_without_a_direction_or_with_nan_is_refused() {
        assert_eq!(unit(vec![1.0], 2), Err(VectorProblem::Dimensions { wanted: 2, found: 1 }));
        assert_eq!(unit(vec![f32::NAN, 1.0], 2), Err(VectorProblem::NotFinite));
        assert_eq!(unit(vec![f32::INFINITY, 1.0], 2), Err(VectorProblem::NotFinite));
        assert_eq!(unit(vec![0.0, 0.0], 2), Err(VectorProblem::Zero));
    }

    #[test]
    fn a_vector_is_read_from_its_bytes_and_wrong_bytes_are_noticed() {
        let vector = [0.5, -1.25, 3.0];
        let mut read = [0.0; 3];
        assert!(read_bytes(&to_bytes(&vector), &mut read));
        assert_eq!(read, vector);
        assert!(!read_bytes(&to_bytes(&vector)[1..], &mut read));
    }
}
