-- What is the sum of web discounts that are far above the mean of their item in 90 days?
WITH discount AS (
  SELECT ws_item_sk AS item_sk, ws_ext_discount_amt AS amount
  FROM web_sales
  JOIN date_dim ON d_date_sk = ws_sold_date_sk
  WHERE d_date BETWEEN DATE'2000-01-27' AND DATE'2000-04-26'
)
SELECT sum(amount) AS excess
FROM discount
JOIN item ON i_item_sk = item_sk
WHERE i_manufact_id BETWEEN 1 AND 600
  AND amount > (
    SELECT 1.3 * avg(other.amount) FROM discount AS other WHERE other.item_sk = i_item_sk
  )
