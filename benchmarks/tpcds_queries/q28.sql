-- What are the mean and the number of list prices in six ranges of quantity, price or coupon?
WITH ranges AS (
  SELECT *
  FROM VALUES
    (1, 0, 5, 8, 460, 57),
    (2, 6, 10, 90, 2300, 31),
    (3, 11, 15, 142, 12200, 79),
    (4, 16, 20, 135, 6000, 38),
    (5, 21, 25, 122, 800, 17),
    (6, 26, 30, 154, 7300, 7)
    AS bounds (number, lowest, highest, price, coupon, cost)
)
SELECT
  number,
  avg(ss_list_price) AS mean,
  count(ss_list_price) AS prices,
  count(DISTINCT ss_list_price) AS distinct_prices
FROM ranges
LEFT JOIN store_sales
  ON ss_quantity BETWEEN lowest AND highest
  AND (
    ss_list_price BETWEEN price AND price + 10
    OR ss_coupon_amt BETWEEN coupon AND coupon + 1000
    OR ss_wholesale_cost BETWEEN cost AND cost + 20
  )
GROUP BY number
ORDER BY number
