-- In which quarters of 1999 do a manufacturer's store sales deviate from its quarterly mean?
WITH quarterly AS (
  SELECT
    i_manufact_id,
    d_qoy,
    sum(ss_sales_price) AS sales,
    avg(sum(ss_sales_price)) OVER (PARTITION BY i_manufact_id) AS mean
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  JOIN item ON i_item_sk = ss_item_sk
  JOIN store ON s_store_sk = ss_store_sk
  WHERE d_year = 1999
    AND (
      i_category IN ('Books', 'Children', 'Electronics')
        AND i_class IN ('fiction', 'history', 'romance', 'infants', 'toddlers', 'audio', 'cameras')
      OR i_category IN ('Women', 'Music', 'Men')
        AND i_class IN ('dresses', 'swimwear', 'rock', 'pop', 'country', 'pants', 'shirts')
    )
  GROUP BY i_manufact_id, d_qoy
)
SELECT i_manufact_id, d_qoy, sales, mean
FROM quarterly
WHERE mean > 0 AND abs(sales - mean) > 0.1 * mean
ORDER BY mean, sales, i_manufact_id, d_qoy
LIMIT 100
